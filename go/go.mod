module github.com/farslot/farslot/go

go 1.24
