// Package clients proves the server wing from outside, through the clients that people use. It has only tests.
package clients
