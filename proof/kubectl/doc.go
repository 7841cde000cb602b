// Package kubectl proves kubectl's own commands through a whole cluster. It has only tests.
package kubectl
