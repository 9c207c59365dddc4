//! What a header promises, checked one by one (contract stub).
