//! envd data-plane shapes.
