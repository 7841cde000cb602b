// Package fairness tests from outside that requests are limited by FlowSchemas and PriorityLevelConfigurations.
package fairness
