"""Reports of trained runs: figures and tables in one self-contained HTML file."""

from simplepcfg.reports.build import make_report
from simplepcfg.reports.page import Report

__all__ = ["Report", "make_report"]
