// Package status makes the metav1.Status of each error: the one place where errors become what clients see.
package status
