// Package status converts errors to a metav1.Status. It is the only place where that happens.
package status
