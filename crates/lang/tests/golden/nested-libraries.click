elementclass A { require(library x.click) input -> output }
