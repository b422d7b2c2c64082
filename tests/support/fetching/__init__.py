"""Where models and test data are fetched from."""
