//! A scripted model server for tests: it speaks the protocols of model providers and can fail like them.
