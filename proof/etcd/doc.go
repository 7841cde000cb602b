// Package etcd proves what becomes of a cluster when its etcd fails. It has only tests.
package etcd
