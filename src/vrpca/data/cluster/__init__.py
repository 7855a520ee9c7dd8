"""Data that dask holds, on this machine or on a cluster: passes run where the chunks are.

dask is imported when such data are given, not before.
"""
