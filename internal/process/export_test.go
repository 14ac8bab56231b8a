package process

// Orders are those of a gate that is to become a program in /.
func Orders(path string, args ...string) []byte {
	return orders{Path: path, Argv: append([]string{path}, args...), Env: []string{}, Dir: "/"}.encode()
}
