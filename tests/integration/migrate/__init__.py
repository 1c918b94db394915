"""Tests that copy or switch between two clusters, and share them and one Spark. One process runs them."""
