package query

import (
	"net/url"
	"strconv"
	"strings"
)

// Bool parses a flag as Kubernetes does: every value but "false" and "0" is true.
func Bool(q url.Values, name string) bool {
	if !q.Has(name) {
		return false
	}
	switch strings.ToLower(q.Get(name)) {
	case "false", "0":
		return false
	}
	return true
}

func integer(q url.Values, name string) (*int64, error) {
	if !q.Has(name) {
		return nil, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil {
		return nil, err
	}
	return &n, nil
}
