package apiserver

import (
	"maps"
	"slices"
	"strings"
)

// runtimeConfig is the value of --runtime-config: key[=value], separated by commas. A key without a value is on.
type runtimeConfig map[string]string

// Set implements pflag.Value.
func (r *runtimeConfig) Set(text string) error {
	if *r == nil {
		*r = runtimeConfig{}
	}
	for _, word := range strings.Split(text, ",") {
		if word == "" {
			continue
		}
		key, value, _ := strings.Cut(word, "=")
		(*r)[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return nil
}

// String implements pflag.Value.
func (r *runtimeConfig) String() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(*r)) {
		all = append(all, key+"="+(*r)[key])
	}
	return strings.Join(all, ",")
}

// Type implements pflag.Value.
func (r *runtimeConfig) Type() string { return "mapStringString" }
