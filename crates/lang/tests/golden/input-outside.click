input -> Counter -> output;
