// Package autoscaling describes the kinds of the group autoscaling: how many pods some work needs.
//
// Autoscalers are kept as version 2. Version 1 has no room for most of it; what does not fit travels in annotations, so
// that a client of version 1 can read an autoscaler and write it back without loss.
package autoscaling

import "github.com/millrace/millrace/server/resource"

// Kinds are all kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{HorizontalPodAutoscalers()} }
