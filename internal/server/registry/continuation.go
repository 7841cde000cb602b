package registry

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/server/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// continuation is the place where a list continues. It has Kubernetes' format, so that its tools can read the tokens.
type continuation struct {
	Version  string         `json:"v"`
	Revision store.Revision `json:"rv"`
	Start    string         `json:"start"`
}

const (
	continuationVersion = "meta.k8s.io/v1"
	// anyRevision in a token means that the list continues from the current state.
	anyRevision = -1
)

func encodeContinuation(rev store.Revision, prefix, after string) string {
	b, _ := json.Marshal(continuation{continuationVersion, rev, strings.TrimPrefix(after, prefix) + "\x00"})
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeContinuation returns the revision and the last key of the page before.
func decodeContinuation(token, prefix string) (rev store.Revision, after string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, "", badContinuation(err.Error())
	}
	var c continuation
	if err := json.Unmarshal(b, &c); err != nil {
		return 0, "", badContinuation(err.Error())
	}
	if c.Version != continuationVersion {
		return 0, "", badContinuation(fmt.Sprintf("server does not recognize this encoded version %q", c.Version))
	}
	if c.Start == "" || c.Revision == 0 || c.Revision < anyRevision {
		return 0, "", badContinuation("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	}
	start := strings.TrimPrefix(c.Start, "/")
	for part := range strings.SplitSeq(strings.TrimSuffix(start, "\x00"), "/") {
		if part == ".." || part == "." || part == "" {
			return 0, "", badContinuation(c.Start)
		}
	}
	return c.Revision, strings.TrimSuffix(prefix+start, "\x00"), nil
}

func badContinuation(why string) error {
	return apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + why)
}
