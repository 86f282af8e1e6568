"""Random attention problems for tests of your own kernels."""

from iosim.attention.random_problems import RULES, Case, build_case, cases, random_case, random_options, variants

__all__ = ["RULES", "Case", "build_case", "cases", "random_case", "random_options", "variants"]
