//! Fuzz targets of nearhead: each runs one function of [`checks`]. The stable tests run the same
//! functions over the corpus.

pub mod checks;
