"""Reranking and scoring of texts, by embeddings or by a cross-encoder."""
