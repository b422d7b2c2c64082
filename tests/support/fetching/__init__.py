"""Sources that models and test data are fetched from."""
