"""Tests of the in-process layer."""
