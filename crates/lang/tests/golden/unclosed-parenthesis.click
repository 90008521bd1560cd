src :: InfiniteSource(LIMIT 5;
dst :: Discard;
src -> dst;
