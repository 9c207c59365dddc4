//! Seeded simulation: a tree of real blocks is walked by thousands of applies and reverts, and after each every method
//! answers what a naive model says: a plain list of canonical blocks and a map of replaced ones.
//!
//! The model knows a block as the JSON that was made of it when the tree was built, by an importer of its own; the
//! system under test imports each block again, over the window that it has at that moment.

mod model;
mod tree;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::dice::Dice;
use model::Model;
use tree::Tree;

/// Sequences of reverts and applies in one run.
const SEQUENCES: usize = 250;

/// Blocks that stand before the first sequence: the window is full and has moved.
const START: u64 = 132;
