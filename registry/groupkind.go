package registry

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// timeGrain is how fine the times in metadata are.
const timeGrain = time.Second

func (s *Storage) groupKind(opt WriteOptions) schema.GroupKind { return opt.face(s.kind).GroupKind() }
