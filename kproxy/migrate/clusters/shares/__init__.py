"""The requests that kafka-python does not have: for the start offsets of share groups (KIP-932), and for the members of
groups of the consumer protocol (KIP-848).

It makes the classes from the definitions beside this module, which are in the format of Kafka's own. Importing this
brings kafka-python with it.
"""

from __future__ import annotations

import warnings

from kafka.protocol.api_message import ApiMessage

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads the files in a deprecated way

    class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]  # it has no types
        """Who is in groups of the consumer protocol."""

    class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]
        """The answer."""

    class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]  # it has no types
        """Where share groups begin."""

    class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]
        """The answer."""

    class AlterShareGroupOffsetsRequest(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]
        """Where a share group without members shall begin."""

    class AlterShareGroupOffsetsResponse(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]
        """The answer."""
