// Package autoscaling describes the kinds of the group autoscaling.
//
// Autoscalers are stored in version 2. Version 1 has no fields for most of it; what does not fit is kept in
// annotations, so that a client of version 1 can read an autoscaler and write it back without loss.
package autoscaling

import "github.com/millrace/millrace/internal/server/resource"

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{HorizontalPodAutoscalers()} }
