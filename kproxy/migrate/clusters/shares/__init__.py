"""Requests that kafka-python lacks: members and start offsets of share groups (KIP-932), members of consumer groups.

The classes are made from the definitions beside this module, which have the format of Kafka's own. Importing this
module imports kafka-python.
"""

from __future__ import annotations

import warnings

from kafka.protocol.api_message import ApiMessage

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads the files in a deprecated way

    class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]  # it has no types
        """A request for the members of groups of the consumer protocol."""

    class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]  # as above
        """The response to ConsumerGroupDescribeRequest."""

    class ShareGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]  # as above
        """A request for the members of share groups."""

    class ShareGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]  # as above
        """The response to ShareGroupDescribeRequest."""

    class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]  # it has no types
        """A request for the start offsets of share groups."""

    class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]  # as above
        """The response to DescribeShareGroupOffsetsRequest."""

    class AlterShareGroupOffsetsRequest(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]  # as above
        """A request that sets the start offsets of a share group without members."""

    class AlterShareGroupOffsetsResponse(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]  # as above
        """The response to AlterShareGroupOffsetsRequest."""
