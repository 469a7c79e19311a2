//go:build !amd64 && !arm64

package dot

func native() []Kernel { return nil }
