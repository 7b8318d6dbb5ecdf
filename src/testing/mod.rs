//! Test builds only: the in-memory JetStream model, scripted sinks, builders.
