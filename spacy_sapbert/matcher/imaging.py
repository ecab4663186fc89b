"""Words for imaging, which mentions of it begin with or contain: "CT chest", "abdominal ultrasound"."""

from __future__ import annotations

import re

IMAGING = re.compile(
    r"\b(?:CTA?|MRI?|MRA|MRV|PET|US|USS|XR|x-?rays?|ultrasounds?|scans?|radiographs?|tomograph(?:y|ic)|resonance|imaging|angiogra(?:m|phy))\b",
    re.IGNORECASE,
)
