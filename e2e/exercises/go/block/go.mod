module block

go 1.26
