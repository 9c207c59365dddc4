//! Fuzz targets of nearhead: each runs one function of [`checks`], which the stable tests run over
//! the corpus.

pub mod checks;
