//! The method handlers: each parses its parameters, sends one typed message, and maps its errors.

pub(crate) mod blocks;
pub(crate) mod calls;
pub(crate) mod companion;
pub(crate) mod fees;
pub(crate) mod filters;
pub(crate) mod forwarded;
pub(crate) mod logs;
pub(crate) mod raw;
pub(crate) mod state;
pub(crate) mod subscribe;
