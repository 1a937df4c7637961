"""Blobs on obstore: a directory, S3, Google Cloud Storage or Azure."""
