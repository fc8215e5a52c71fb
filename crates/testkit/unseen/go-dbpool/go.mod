module ten/go-dbpool

go 1.24
