"""Sentences that rules derive from the data of one run, each with its evidence."""
