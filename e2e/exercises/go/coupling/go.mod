module coupling

go 1.26
