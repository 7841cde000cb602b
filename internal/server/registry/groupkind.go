package registry

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// timeGrain is the resolution of times in metadata.
const timeGrain = time.Second

// groupKind returns the kind's own group and name, whatever face the request uses.
func (s *Storage) groupKind() schema.GroupKind { return s.kind.GroupVersionKind().GroupKind() }
