package negotiate

import (
	"errors"
	"mime"
	"slices"
	"strconv"
	"strings"
)

type preference struct {
	Kind    string
	Params  map[string]string
	quality float64
}

// maxPreferences bounds the work for one header.
const maxPreferences = 64

// ParseAccept returns the parts of an Accept header, the most preferred first.
func ParseAccept(accept string) []preference {
	var out []preference
	for part := range strings.SplitSeq(accept, ",") {
		if len(out) == maxPreferences {
			break
		}
		kind, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
			continue
		}
		if raw, _, _ := strings.Cut(strings.TrimSpace(part), ";"); strings.TrimSpace(raw) != kind {
			continue // kube-apiserver accepts them in lower case only
		}
		w := preference{kind, params, 1}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			w.quality = q
		}
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b preference) int {
		switch {
		case a.quality > b.quality:
			return -1
		case a.quality < b.quality:
			return 1
		}
		return 0
	})
	return out
}
