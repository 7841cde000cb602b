package registry

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// timeGrain is how fine the times in metadata are.
const timeGrain = time.Second

// groupKind is the kind's own name, whatever face the caller has chosen.
func (s *Storage) groupKind() schema.GroupKind { return s.kind.GroupVersionKind().GroupKind() }
