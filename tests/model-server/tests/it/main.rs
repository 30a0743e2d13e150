//! The model server over plain HTTP.
