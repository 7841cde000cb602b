// Package etcd tests a cluster whose etcd or disk fails. It has only tests.
package etcd
