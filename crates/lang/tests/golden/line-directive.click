a :: Idle;
# 100 "generated.click"
b :: Idle;
b :: Idle;
