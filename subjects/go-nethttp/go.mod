module dyno/subjects/go-nethttp

go 1.24
