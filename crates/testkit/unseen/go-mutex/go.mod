module ten/go-mutex

go 1.24
