package query

import (
	"net/url"
	"strconv"
	"strings"
)

// Bool reads a flag as Kubernetes does: whatever is not a denial is a yes.
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
