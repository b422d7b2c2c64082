"""Operations of batch-invariant mode: every bit of a row's result depends on that row alone.

Each operation has one kernel for any number of rows, and tiles that never change the order of a sum: no library
products, no sums split by the number of programs. Operations that are not here are batch-invariant in either mode.
"""
