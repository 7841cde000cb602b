// Package kubectl tests kubectl's own commands with a whole cluster. It has only tests.
package kubectl
