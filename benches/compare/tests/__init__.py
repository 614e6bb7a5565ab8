"""Tests of what benches/compare computes and writes; no broker is started."""
